"""nbclaims as it is where no project adds anything."""

from collections.abc import Callable

import pytest
from nbformat import NotebookNode

from ..cells import write
from ..collector import NotebookFile
from ..project import Project, project

TORN_DOWN: list[NotebookFile] = []  # a kernel that is collected as garbage warns that nbval did not close its stderr


@pytest.fixture(autouse=True)
def bare_project(monkeypatch):
    """The defaults of a project, whatever the one that this copy belongs to has set."""
    for name, default in vars(Project()).items():
        monkeypatch.setattr(project, name, default)


@pytest.fixture
def run(request, tmp_path) -> Callable[[NotebookNode], dict[str, str]]:
    """Runs the items of a notebook in this process; the messages of those that fail or skip, "" of those that pass."""

    def messages(book: NotebookNode) -> dict[str, str]:
        write(tmp_path / "trees.ipynb", book)
        file, found = NotebookFile.from_parent(request.session, path=tmp_path / "trees.ipynb"), {}
        try:
            for item in file.collect():
                try:
                    item.setup()
                    item.runtest()
                    found[item.name] = ""
                except pytest.skip.Exception as skip:
                    found[item.name] = f"skipped: {skip}"
                except Exception:
                    found[item.name] = str(item.repr_failure(pytest.ExceptionInfo.from_current()))
        finally:
            file.teardown()
            TORN_DOWN.append(file)
        return found

    return messages
