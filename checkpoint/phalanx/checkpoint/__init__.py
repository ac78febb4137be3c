"""Keeping a thread's state: the codec, the checkpoint format, and the savers."""
