"""`python -m gpuemu` is the `gpuemu` command."""

from gpuemu.cli.main import main

main()
