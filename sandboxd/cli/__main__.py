"""`python -m sandboxd.cli`, for where the command is not on the PATH."""

from sandboxd.cli.main import main

main()
