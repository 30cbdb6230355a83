"""Counts words: a tool for the model, `/words` in the prompt, `hermes word-count` in the shell."""

import json


def register(ctx):
    def count(name):
        path = (ctx.workspace / name).resolve()
        if not path.is_relative_to(ctx.workspace):
            raise ValueError(f"{name} is outside of the project")
        words = len(path.read_text("utf-8").split())
        kept = ctx.data / "counts.json"
        counts = json.loads(kept.read_text()) if kept.exists() else {}
        counts[name] = words
        kept.write_text(json.dumps(counts))
        return words

    async def tool(arguments):
        return {"words": count(arguments["path"])}

    def command(text):
        return f"{text}: {count(text)} words" if text else "Name a file: /words README.md"

    def shell(arguments):
        for name in arguments:
            print(name)  # goes into the log of the plugin
        return "\n".join(f"{count(name):>8} {name}" for name in arguments)

    ctx.register_tool(
        "count_words",
        "Count the words of a text file of the project.",
        {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
        tool,
    )
    ctx.register_command("words", "Count the words of a file.", command)
    ctx.register_cli_command("word-count", "Count the words of files.", shell)
    ctx.register_prompt_section(
        "Word counts", "Lengths of texts are counted with count_words, never guessed."
    )
