"""What only an ordinary user meets: run as one, it prints as JSON what was not as it should be."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

sys.path.insert(0, sys.argv[1])

from agent.workspace.checkpoints.file_register import CaptureLimits
from agent.workspace.checkpoints.recorder import StepRecorder
from agent.workspace.checkpoints.restore.apply import apply_restore
from agent.workspace.checkpoints.restore.plan import plan_restore
from agent.workspace.checkpoints.store import CheckpointStore
from tools.services.actions import RunCommand

COMMAND = """
chmod u+w readonly; echo x >readonly/made; rm readonly/file; chmod 500 readonly
echo more >>plain; chmod 000 plain; rm -f closed; echo x >>listed-only/file 2>/dev/null
mkdir new; echo y >new/file; chmod 555 new; chmod 500 .
"""


async def main(place: Path) -> dict[str, object]:
    root = (place / "work").resolve()
    for folder in ("readonly", "listed-only", "shut"):
        (root / folder).mkdir(parents=True)
        (root / folder / "file").write_text("old")
    (root / "plain").write_text("old")
    (root / "closed").write_text("nobody reads this")
    (root / "closed").chmod(0)
    (root / "readonly").chmod(0o555)
    (root / "listed-only").chmod(0o444)
    (root / "shut").chmod(0)
    recorder = StepRecorder(
        CheckpointStore(place / "home" / "checkpoints"), "s", root, CaptureLimits(10**6, 10**7), print
    )
    recorder.start()
    await recorder.ready()
    beforehand = sorted(item.path for item in recorder.coverage().left_out)
    async with recorder.during("c", "terminal", "s") as recording:
        await recorder.acting("c", RunCommand(tool="terminal", command="x", cwd=root))
        child = await asyncio.create_subprocess_exec("sh", "-c", COMMAND, cwd=root)
        await child.wait()
    store = recorder.store
    plan = plan_restore(root, store.line("s").steps(), 0, store.objects, limit=10**6)
    done = await recorder.run(lambda: apply_restore(plan, {}, store, "s", session="s", label="back"))
    await recorder.stop()
    return {
        "beforehand": beforehand,
        "changed": sorted(change.path for change in recording.step.changes) if recording.step else [],
        "skipped": sorted(item.path for item in done.skipped),
        "readonly": oct((root / "readonly").stat().st_mode & 0o7777),
        "workspace": oct(root.stat().st_mode & 0o7777),
        "file": (root / "readonly" / "file").read_text(),
        "there": sorted(path.name for path in root.iterdir()),
    }


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(Path(sys.argv[2])))))
