"""Decode: runs to YUV pictures."""
