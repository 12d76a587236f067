/* store/folder.h - the folders of a store on disk: opened by no link, and what is made in them belongs to whom they belong.
 *
 * Root may have a store open that is somebody else's, who can put in it what he likes, while it is open as well. So each folder is opened by its name in the one that holds it, whose
 * descriptor is at hand, and never by a longer path; and root gives what it makes away, or the owner could neither use nor remove it. */
#ifndef PT_STORE_FOLDER_H
#define PT_STORE_FOLDER_H

#include <stdbool.h>

/* A file or folder that this process has just made in dirfd is given to that folder's owner and group, if we are root and it is root's. 0, also where the system does not let us;
 * -errno: above all -EDQUOT. Sets no sentence. */
int pt_folder_owner_set(int dirfd, int fd);
/* Opens the folder `name` of dirfd, with O_RDONLY or O_PATH. -ELOOP: it is a symbolic link; -ENOTDIR; -ENOENT; -EPERM: it is a stranger's, into whose folders root does not go.
 * Each with a sentence that names it. */
int pt_folder_open(int dirfd, const char *name, int flags, int *ret_fd);
/* The same, with O_RDONLY, made if it is not there; *ret_made: it was, and is not durable before dirfd is synced. What mkdir fails with. */
int pt_folder_make(int dirfd, const char *name, bool *ret_made, int *ret_fd);
/* The same without a sentence, and the one of before is left. */
int pt_folder_try(int dirfd, const char *name, int flags, int *ret_fd);
int pt_folder_try_make(int dirfd, const char *name, bool *ret_made, int *ret_fd);
/* A sentence for what is there in place of a file of the store: -ELOOP, a symbolic link; -EIO, anything else. */
int pt_folder_fail_no_file(int dirfd, const char *name, unsigned int mode);

#endif
