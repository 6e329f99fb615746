"""The command ``mcvi``; also ``python -m mcvi``."""

import signal
import sys

from mcvi import _mcvi


def main() -> None:
    """Run the command line of this process."""
    # The command has handlers of its own, which Python's would be called after.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_mcvi.main(["mcvi", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
