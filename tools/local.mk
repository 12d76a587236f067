# ptio, the command: bin_PROGRAMS += tools/ptio.
