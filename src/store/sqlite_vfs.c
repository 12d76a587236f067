/* store/sqlite_vfs.c - see sqlite_vfs.h. Owns the VFS object; assumes that SQLite's default VFS is the system's. */
#include "store/sqlite_vfs.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include <sqlite3.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/hash.h"

/* An index file: this, then the file of the VFS below. Other files (log, journal) are opened by the VFS below directly. */
struct index_file {
	sqlite3_file base;
	void volatile *shm;             /* first region of the log's shared memory, or NULL */
	sqlite3_file below[];
};

#define FDS "/proc/self/fd/"

static sqlite3_file *below(sqlite3_file *f)
{
	return ((struct index_file *)f)->below;
}

static uint64_t page_sum(const uint8_t *page, uint64_t off)
{
	uint8_t b[16];

	pt_put_le64(b, pt_hash64(page, PT_SQLITE_PAGE - PT_SQLITE_RESERVE));
	pt_put_le64(b + 8, off);
	return pt_hash64(b, sizeof(b));
}

static int file_close(sqlite3_file *f)
{
	return below(f)->pMethods->xClose(below(f));
}

/* Reads a whole page and checks its sum. SQLite would take what is missing of it for zeros. */
static int read_page(sqlite3_file *f, uint8_t *page, sqlite3_int64 off)
{
	int rc = below(f)->pMethods->xRead(below(f), page, PT_SQLITE_PAGE, off);

	if (rc == SQLITE_IOERR_SHORT_READ)
		return SQLITE_CORRUPT;
	if (rc == SQLITE_OK && page_sum(page, (uint64_t)off) != pt_get_le64(page + PT_SQLITE_PAGE - PT_SQLITE_RESERVE))
		return SQLITE_IOERR_DATA;
	return rc;
}

/* SQLite reads whole pages but for two things: the header of the first page, of which what matters is read again with its
 * page; and, since 3.45, the part that it needs of a page that continues a large record (SQLITE_DIRECT_OVERFLOW_READ). */
static int file_read(sqlite3_file *f, void *buf, int len, sqlite3_int64 off)
{
	uint8_t page[PT_SQLITE_PAGE];
	int at = (int)(off % PT_SQLITE_PAGE);
	int rc;

	if (len == PT_SQLITE_PAGE && at == 0)
		return read_page(f, buf, off);
	if (off < PT_SQLITE_PAGE && len < 512)
		return below(f)->pMethods->xRead(below(f), buf, len, off);
	if (len > PT_SQLITE_PAGE - at)
		return SQLITE_CORRUPT;
	rc = read_page(f, page, off - at);
	if (rc == SQLITE_OK)
		memcpy(buf, page + at, (size_t)len);
	return rc;
}

static int file_write(sqlite3_file *f, const void *buf, int len, sqlite3_int64 off)
{
	uint8_t page[PT_SQLITE_PAGE];

	if (len != PT_SQLITE_PAGE || off % PT_SQLITE_PAGE)
		return SQLITE_IOERR_WRITE;
	memcpy(page, buf, PT_SQLITE_PAGE - PT_SQLITE_RESERVE);
	pt_put_le64(page + PT_SQLITE_PAGE - PT_SQLITE_RESERVE, page_sum(page, (uint64_t)off));
	return below(f)->pMethods->xWrite(below(f), page, len, off);
}

static int file_truncate(sqlite3_file *f, sqlite3_int64 bytes)
{
	return below(f)->pMethods->xTruncate(below(f), bytes);
}

static int file_sync(sqlite3_file *f, int flags)
{
	return below(f)->pMethods->xSync(below(f), flags);
}

static int file_size(sqlite3_file *f, sqlite3_int64 *ret_bytes)
{
	return below(f)->pMethods->xFileSize(below(f), ret_bytes);
}

static int file_lock(sqlite3_file *f, int lock)
{
	return below(f)->pMethods->xLock(below(f), lock);
}

static int file_unlock(sqlite3_file *f, int lock)
{
	return below(f)->pMethods->xUnlock(below(f), lock);
}

static int file_check_reserved_lock(sqlite3_file *f, int *ret_held)
{
	return below(f)->pMethods->xCheckReservedLock(below(f), ret_held);
}

static int file_control(sqlite3_file *f, int op, void *arg)
{
	return below(f)->pMethods->xFileControl(below(f), op, arg);
}

static int file_sector_size(sqlite3_file *f)
{
	return below(f)->pMethods->xSectorSize(below(f));
}

static int file_device_characteristics(sqlite3_file *f)
{
	return below(f)->pMethods->xDeviceCharacteristics(below(f));
}

static int file_shm_map(sqlite3_file *f, int region, int bytes, int extend, void volatile **ret_addr)
{
	int rc = below(f)->pMethods->xShmMap(below(f), region, bytes, extend, ret_addr);

	if (rc == SQLITE_OK && region == 0)
		((struct index_file *)f)->shm = *ret_addr;
	return rc;
}

static int file_shm_lock(sqlite3_file *f, int off, int n, int flags)
{
	return below(f)->pMethods->xShmLock(below(f), off, n, flags);
}

static void file_shm_barrier(sqlite3_file *f)
{
	below(f)->pMethods->xShmBarrier(below(f));
}

static int file_shm_unmap(sqlite3_file *f, int delete_it)
{
	((struct index_file *)f)->shm = NULL;
	return below(f)->pMethods->xShmUnmap(below(f), delete_it);
}

/* Version 2: no xFetch, pages are never mapped. */
static const sqlite3_io_methods index_methods = {
	.iVersion = 2,
	.xClose = file_close,
	.xRead = file_read,
	.xWrite = file_write,
	.xTruncate = file_truncate,
	.xSync = file_sync,
	.xFileSize = file_size,
	.xLock = file_lock,
	.xUnlock = file_unlock,
	.xCheckReservedLock = file_check_reserved_lock,
	.xFileControl = file_control,
	.xSectorSize = file_sector_size,
	.xDeviceCharacteristics = file_device_characteristics,
	.xShmMap = file_shm_map,
	.xShmLock = file_shm_lock,
	.xShmBarrier = file_shm_barrier,
	.xShmUnmap = file_shm_unmap,
};

static sqlite3_vfs *system_vfs;         /* set once, before the VFS is registered */

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *f, int flags, int *ret_flags)
{
	int rc;

	(void)vfs;
	if (!(flags & SQLITE_OPEN_MAIN_DB))
		return system_vfs->xOpen(system_vfs, name, f, flags, ret_flags);
	f->pMethods = NULL;
	((struct index_file *)f)->shm = NULL;
	rc = system_vfs->xOpen(system_vfs, name, below(f), flags, ret_flags);
	if (rc == SQLITE_OK)
		f->pMethods = &index_methods;
	else if (below(f)->pMethods)
		below(f)->pMethods->xClose(below(f));
	return rc;
}

static int vfs_delete(sqlite3_vfs *vfs, const char *name, int sync_dir)
{
	(void)vfs;
	return system_vfs->xDelete(system_vfs, name, sync_dir);
}

/* No index has a rollback journal, for it has a log, and what is made anew is thrown away after a crash. One that lies beside an index was put there: SQLite would roll the index back by it,
 * and, as it may name another file, remove that. */
static bool is_journal(const char *name)
{
	static const char end[] = "-journal";
	size_t len = strlen(name);

	return len >= sizeof(end) - 1 && strcmp(name + len - (sizeof(end) - 1), end) == 0;
}

static int vfs_access(sqlite3_vfs *vfs, const char *name, int flags, int *ret_yes)
{
	(void)vfs;
	if (is_journal(name)) {
		*ret_yes = 0;
		return SQLITE_OK;
	}
	return system_vfs->xAccess(system_vfs, name, flags, ret_yes);
}

static int vfs_full_pathname(sqlite3_vfs *vfs, const char *name, int len, char *ret_path)
{
	(void)vfs;
	/* The system's would look up what the link leads to, and open that by its path (sqlite_file.h). */
	if (strncmp(name, FDS, sizeof(FDS) - 1) != 0)
		return system_vfs->xFullPathname(system_vfs, name, len, ret_path);
	if (strlen(name) >= (size_t)len)
		return SQLITE_CANTOPEN;
	memcpy(ret_path, name, strlen(name) + 1);
	return SQLITE_OK;
}

static int vfs_randomness(sqlite3_vfs *vfs, int len, char *buf)
{
	(void)vfs;
	return system_vfs->xRandomness(system_vfs, len, buf);
}

static int vfs_sleep(sqlite3_vfs *vfs, int us)
{
	(void)vfs;
	return system_vfs->xSleep(system_vfs, us);
}

static int vfs_current_time(sqlite3_vfs *vfs, double *ret_now)
{
	(void)vfs;
	return system_vfs->xCurrentTime(system_vfs, ret_now);
}

static int vfs_last_error(sqlite3_vfs *vfs, int len, char *buf)
{
	(void)vfs;
	return system_vfs->xGetLastError(system_vfs, len, buf);
}

static int vfs_current_time_ms(sqlite3_vfs *vfs, sqlite3_int64 *ret_now)
{
	(void)vfs;
	return system_vfs->xCurrentTimeInt64(system_vfs, ret_now);
}

/* Not const: SQLite links it into its list. */
static sqlite3_vfs index_vfs = {
	.iVersion = 2,
	.zName = PT_SQLITE_VFS,
	.xOpen = vfs_open,
	.xDelete = vfs_delete,
	.xAccess = vfs_access,
	.xFullPathname = vfs_full_pathname,
	.xRandomness = vfs_randomness,
	.xSleep = vfs_sleep,
	.xCurrentTime = vfs_current_time,
	.xGetLastError = vfs_last_error,
	.xCurrentTimeInt64 = vfs_current_time_ms,
};

static int register_rc;

static void register_once(void)
{
	register_rc = SQLITE_MISUSE;
	if (sqlite3_threadsafe() == 0 || sqlite3_initialize() != SQLITE_OK)
		return;
	system_vfs = sqlite3_vfs_find(NULL);
	if (!system_vfs || system_vfs->iVersion < 2)
		return;
	index_vfs.szOsFile = system_vfs->szOsFile + (int)sizeof(struct index_file);
	index_vfs.mxPathname = system_vfs->mxPathname;
	register_rc = sqlite3_vfs_register(&index_vfs, 0);
}

int pt_sqlite_vfs_register(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, register_once);
	if (register_rc == SQLITE_NOMEM)
		return pt_fail_nomem();
	if (register_rc != SQLITE_OK)
		return pt_fail(ENOTSUP, "this build of SQLite cannot hold an index (it needs threads and a system VFS)");
	return 0;
}

const void volatile *pt_sqlite_vfs_shm(sqlite3 *db)
{
	sqlite3_file *f = NULL;

	if (sqlite3_file_control(db, "main", SQLITE_FCNTL_FILE_POINTER, &f) != SQLITE_OK || !f || f->pMethods != &index_methods)
		return NULL;
	return ((struct index_file *)f)->shm;
}
