"""The checks of the house rules find violations."""

import ast
from pathlib import Path

import pytest

from tools import tree


def test_a_long_function_is_found() -> None:
    text = "def long():\n" + "    pass\n" * tree.MAX_FUNCTION_LINES
    assert list(tree.check_sizes(Path("a.py"), text, ast.parse(text)))


def test_a_long_file_is_found() -> None:
    text = "x = 1\n" * (tree.MAX_FILE_LINES + 1)
    assert list(tree.check_sizes(Path("a.py"), text, ast.parse(text)))


def test_a_short_file_is_found_unless_it_has_a_reason() -> None:
    assert list(tree.check_small(tree.PACKAGE / "agents" / "small.py", "x = 1\n"))
    assert not list(tree.check_small(tree.PACKAGE / "agents" / "small.py", "x = 1\n" * tree.MIN_FILE_LINES))
    assert not list(tree.check_small(tree.PACKAGE / "_lazy.py", "x = 1\n"))
    assert not list(tree.check_small(tree.PACKAGE / "lab" / "wing.py", "x = 1\n"))


def test_what_is_short_for_a_reason_is_there() -> None:
    assert [one for one in tree.SMALL if not (tree.ROOT / tree.PACKAGE / one).is_file()] == []


@pytest.mark.parametrize(("methods", "lines"), [(tree.MAX_METHODS + 1, 1), (1, tree.MAX_CLASS_LINES)])
def test_a_large_class_is_found(methods: int, lines: int) -> None:
    text = "class Large:\n" + "".join(
        f"    def m{number}(self):\n" + "        pass\n" * lines for number in range(methods)
    )
    assert list(tree.check_classes(Path("a.py"), ast.parse(text)))


def test_a_constructor_with_many_arguments_is_found() -> None:
    names = ", ".join(f"a{number}" for number in range(tree.MAX_PARAMETERS + 1))
    assert list(tree.check_classes(Path("a.py"), ast.parse(f"class A:\n    def __init__(self, *, {names}): ...")))
    assert not list(tree.check_classes(Path("a.py"), ast.parse(f"class A:\n    def __init__(self, {names[4:]}): ...")))


def test_a_folder_with_too_many_entries_is_found() -> None:
    paths = [Path(f"src/package/family/module_{number}.py") for number in range(26)]
    assert list(tree.check_folders(paths)) == ["src/package/family: 26 entries; give families a folder (at most 25)"]
    assert list(tree.check_folders(paths[:25])) == []


@pytest.mark.parametrize("name", ["src/utils.py", "src/_base.py", "src/helpers/a.py", "src/task_manager.py"])
def test_an_empty_name_is_found(name: str) -> None:
    assert list(tree.check_name(Path(name)))


def test_a_name_that_only_contains_an_empty_word_is_fine() -> None:
    assert not list(tree.check_name(Path("src/database.py")))


def test_code_in_an_init_is_found() -> None:
    module = ast.parse("def helpful():\n    return 1\n")
    assert list(tree.check_init(Path("__init__.py"), module))


def test_a_lazy_facade_is_fine() -> None:
    module = ast.parse("from a import lazy\n__all__, __getattr__, __dir__ = lazy(__name__, __file__)\n")
    assert not list(tree.check_init(Path("__init__.py"), module))


def test_a_root_with_too_many_names_is_found() -> None:
    names = [f"name_{number}" for number in range(tree.MAX_ROOT_NAMES + 1)]
    assert list(tree.check_root(tree.PACKAGE_ROOT, ast.parse(f"from a import {', '.join(names)}")))
    assert not list(tree.check_root(tree.PACKAGE_ROOT, ast.parse(f"from a import {', '.join(names[1:])}")))


@pytest.mark.parametrize("folder", ["home", "root"])
def test_a_path_of_one_machine_is_found(folder: str) -> None:
    assert list(tree.check_text(Path("docs/a.md"), f"see /{folder}/me/file"))


def test_the_host_of_a_package_registry_is_found() -> None:
    assert list(tree.check_text(Path("docs/a.md"), "https:" + "//pypi.org/simple/anyio"))
    assert list(tree.check_text(Path("requirements/run.txt"), "--index-url https:" + "//mirror.example"))


def test_other_addresses_are_fine() -> None:
    assert not list(tree.check_text(Path("docs/a.md"), "http://127.0.0.1:8000/v1 and http://host/root/item"))
