"""The real agent on this machine, through the SDK and the command line."""
