# ptio, the command: one subcommand a file.
bin_PROGRAMS += tools/ptio
tools_ptio_SOURCES = \
	tools/cli.c \
	tools/cli.h \
	tools/cmd_fsck.c \
	tools/cmd_gc.c \
	tools/cmd_get.c \
	tools/cmd_ls.c \
	tools/cmd_pending.c \
	tools/cmd_put.c \
	tools/cmd_rm.c \
	tools/cmd_stat.c \
	tools/cmd_verify.c \
	tools/cmd_wait.c \
	tools/cmd_warm.c \
	tools/files.c \
	tools/fsck.h \
	tools/fsck_check.c \
	tools/fsck_files.c \
	tools/fsck_rebuild.c \
	tools/fsck_rescue.c \
	tools/fsck_rescue.h \
	tools/fsck_tensors.c \
	tools/links.c \
	tools/main.c
tools_ptio_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)
tools_ptio_LDADD = libptio_core.la $(JANSSON_LIBS) -lm
dist_man_MANS += man/ptio.1

# bash finds a command's completion in the file of its name.
EXTRA_DIST += tools/completion.bash
completionsdir = $(datadir)/bash-completion/completions
install-data-hook:
	$(MKDIR_P) '$(DESTDIR)$(completionsdir)'
	$(INSTALL_DATA) '$(srcdir)/tools/completion.bash' '$(DESTDIR)$(completionsdir)/ptio'
	ln -sf ptio '$(DESTDIR)$(completionsdir)/ptiofs'
	ln -sf ptio '$(DESTDIR)$(completionsdir)/ptiod'
uninstall-hook:
	rm -f '$(DESTDIR)$(completionsdir)/ptio' '$(DESTDIR)$(completionsdir)/ptiofs' '$(DESTDIR)$(completionsdir)/ptiod'
