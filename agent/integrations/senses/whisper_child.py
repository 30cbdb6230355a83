"""Program that transcribes a recording with a whisper package: `python … FILE MODEL LANGUAGE`."""

import json
import sys


def main(path: str, model: str, language: str) -> None:
    output, sys.stdout = sys.stdout, sys.stderr
    try:
        from faster_whisper import WhisperModel  # type: ignore[import-not-found]

        # Models are those that are here: nothing is fetched.
        loaded = WhisperModel(model, device="cpu", compute_type="int8", local_files_only=True)
        segments, info = loaded.transcribe(path, language=language or None)
        text, found = " ".join(each.text.strip() for each in segments), info.language
    except ImportError:
        import whisper  # type: ignore[import-not-found]

        said = whisper.load_model(model).transcribe(path, language=language or None)
        text, found = said["text"].strip(), said["language"]
    json.dump({"text": text, "language": found}, output)
    output.flush()


if __name__ == "__main__":
    main(*sys.argv[1:4])
