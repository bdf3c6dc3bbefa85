"""`python -m gpuemu` is the `gpuemu` command. Both begin here: Ctrl-C is answered before anything is imported."""

from gpuemu.cli.interrupts import answer


def main() -> None:
    """Run the command line."""
    answer()
    from gpuemu.cli.main import main as command

    command()


if __name__ == "__main__":
    main()
