"""`python -m goldstein` is the command `goldstein`."""

from goldstein.cli import main

if __name__ == "__main__":
    main()
