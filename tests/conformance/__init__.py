"""The promises of a sandbox, tried on every backend that this machine has."""
