"""What the machine is asked for."""

from __future__ import annotations

import os
from pathlib import Path

from agent.model.local.profile import free_cores, free_memory, physical_cores


def topology(folder: Path, siblings: dict[int, str]) -> Path:
    for number, text in siblings.items():
        place = folder / f"cpu{number}" / "topology"
        place.mkdir(parents=True)
        (place / "thread_siblings_list").write_text(f"{text}\n")
    return folder


def allowed() -> list[int]:
    return sorted(os.sched_getaffinity(0))


def test_there_is_always_a_core(tmp_path: Path) -> None:
    assert 1 <= physical_cores() <= (os.cpu_count() or 1)
    assert physical_cores(tmp_path / "none", tmp_path / "none") >= 1


def test_hyper_threads_count_once(tmp_path: Path) -> None:
    together = ",".join(map(str, allowed()))
    cpus = topology(tmp_path, dict.fromkeys(allowed(), together))
    assert physical_cores(cpus, tmp_path / "none") == 1


def test_the_quota_of_a_container_counts(tmp_path: Path) -> None:
    quota = tmp_path / "cpu.max"
    cpus = topology(tmp_path, {number: str(number) for number in allowed()})
    quota.write_text("100000 100000\n")
    assert physical_cores(cpus, quota) == 1
    quota.write_text("max 100000\n")
    assert physical_cores(cpus, quota) == len(allowed())
    quota.write_text("5000 100000\n")
    assert physical_cores(cpus, quota) == 1


def test_cores_that_others_keep_busy_are_left_to_them() -> None:
    assert free_cores(8, 0.2) == 8
    assert free_cores(8, 2.9) == 5
    assert free_cores(2, 1.0) == 1
    assert free_cores(2, 7.5) == 1
    assert 1 <= free_cores(4) <= 4


def test_free_memory_is_what_the_system_says(tmp_path: Path) -> None:
    table = tmp_path / "meminfo"
    table.write_text("MemTotal:       1000 kB\nMemAvailable:    600 kB\n")
    assert free_memory(table) == 600 * 1024
    table.write_text("MemTotal: 1000 kB\nMemAvailable: plenty\n")
    assert free_memory(table) is None
    assert free_memory(tmp_path / "none") is None
