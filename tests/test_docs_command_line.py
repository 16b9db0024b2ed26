"""The command line's reference is as the code has it."""

from docs.command_line import PAGE, reference


def test_the_reference_of_the_command_line_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == reference(), "run `make docs` and commit docs/cli.md"


def test_the_reference_names_every_command_and_option() -> None:
    assert all(f"## {name}\n" in reference() for name in ("run", "list", "worker", "export", "import"))
    assert "`--set a.b=VALUE`" in reference() and "`RUN_ID...`" in reference()
