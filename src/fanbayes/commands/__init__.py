"""The commands of the program: thin callers, one file each."""
