"""Files that are written as a whole or not at all."""

import errno
import os
import secrets
import time
from contextlib import suppress
from glob import escape
from pathlib import Path

FIXES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT, errno.EFBIG), "free {size:.1f} MiB there, or write elsewhere"),
    **dict.fromkeys((errno.EACCES, errno.EPERM), "allow yourself to write there, or write elsewhere"),
    errno.EROFS: "that disk can only be read; write elsewhere",
    **dict.fromkeys((errno.ENOTDIR, errno.EEXIST), "a file has the name of a folder that is needed; rename that file"),
    errno.EISDIR: "a folder has this name; rename that folder",
    errno.ENAMETOOLONG: "take a shorter name",
}
STYLE = """:root { color-scheme: light dark; }
body { font: 16px/1.5 sans-serif; max-width: 50em; margin: 2em auto; padding: 0 1em; }
table { border-collapse: collapse; } td, th { padding: .2em .8em .2em 0; text-align: left; vertical-align: top; }
pre { overflow-x: auto; font-size: 14px; padding: .6em; border: 1px solid #8886; }"""
LEFT_BEHIND = 3600.0  # seconds after which a temporary file belongs to a process that was killed


def write_whole(path: Path, content: bytes) -> None:
    """Write a file under a temporary name and rename it: at any moment there is the old one or the new one, whole.

    Of several processes that write it the last one wins. Raises OSError, with the fix; the old file is then kept.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        fix = FIXES.get(error.errno or 0, "write elsewhere").format(size=len(content) / 2**20)
        old = "what was there is kept; " if path.is_file() else ""
        raise OSError(f"can't write {path} ({error.strerror}); {old}{fix}") from error
    finally:
        with suppress(OSError):  # after the rename there is none
            part.unlink()
    for abandoned in path.parent.glob(f".{escape(path.name)}.*.part"):
        with suppress(OSError):  # it may end in this moment
            if time.time() - abandoned.stat().st_mtime > LEFT_BEHIND:
                abandoned.unlink()


def html_page(title: str, parts: list[str]) -> str:
    """A page that needs no other file, from a title and parts in HTML."""
    head = f"<!doctype html>\n<html lang='en'>\n<meta charset='utf-8'>\n<title>{title}</title>\n<style>{STYLE}</style>"
    return "\n".join([head, f"<h1>{title}</h1>", *parts, "</html>\n"])
