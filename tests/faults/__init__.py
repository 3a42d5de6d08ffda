"""Something is killed, cut, stalled or filled on purpose."""
