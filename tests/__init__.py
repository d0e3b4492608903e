"""The tests of the course; tests/nbclaims is a package of its own."""

import os
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UV = shutil.which(os.environ.get("UV") or "uv") or shutil.which(ROOT / ".uv/bin/uv")  # as the Makefile finds it
