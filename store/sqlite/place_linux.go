package sqlite

import (
	"bufio"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
)

// names returns how many names a file has.
func names(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Nlink) //nolint:unconvert // it is 32 bits wide on some architectures
	}
	return 1
}

// remote are the magic numbers of file systems that other hosts may have mounted too.
var remote = map[uint32]string{
	0x6969:     "NFS",
	0x517b:     "SMB",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB2",
	0x01021997: "9P",
	0x5346414f: "AFS",
	0x6b414653: "AFS",
	0x73757245: "Coda",
	0x564c:     "NCP",
	0x00c36400: "Ceph",
	0x01161970: "GFS2",
	0x7461636f: "OCFS2",
	0x0bd00bd0: "Lustre",
	0x47504653: "GPFS",
	0x19830326: "BeeGFS",
	0x786f4256: "VirtualBox shared folder",
	0xbacbacbc: "VMware shared folder",
}

const fuse = 0x65735546

// remoteFuse are types of FUSE mounts, as the kernel shows them, that lead to another host.
var remoteFuse = []string{
	"sshfs", "s3fs", "rclone", "gcsfuse", "goofys", "mount-s3", "juicefs", "glusterfs", "ceph-fuse", "ceph", "davfs", "davfs2",
	"curlftpfs", "smbnetfs", "gvfsd-fuse", "google-drive-ocamlfuse", "onedriver", "blobfuse", "blobfuse2", "seaweedfs", "moosefs",
	"lizardfs", "hdfs", "dfs_fuse", "vmhgfs-fuse", "prl_fsd", "grpcfuse", "osxfs", "virtiofs", "nfs",
}

// networkFS returns the network file system of a lock file, or of dir if the file does not exist yet. It returns "" for a
// local file system, and for an unknown one.
func networkFS(path, dir string) string {
	var st syscall.Statfs_t
	if syscall.Statfs(path, &st) != nil && syscall.Statfs(dir, &st) != nil {
		return ""
	}
	var mount string
	if uint32(st.Type) == fuse {
		mount = mountType(path, dir)
	}
	return classify(uint32(st.Type), mount)
}

func classify(magic uint32, mount string) string {
	if magic == fuse {
		if kind := strings.TrimPrefix(mount, "fuse."); slices.Contains(remoteFuse, kind) {
			return kind
		}
		return ""
	}
	return remote[magic]
}

// mountType returns the type of the mount that a path is on, such as fuse.sshfs.
func mountType(path, dir string) string {
	var st syscall.Stat_t
	if syscall.Stat(path, &st) != nil && syscall.Stat(dir, &st) != nil {
		return ""
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	defer f.Close()
	dev := int64(st.Dev)
	major := dev>>8&0xfff | dev>>32&^0xfff
	minor := dev&0xff | dev>>12&^0xff
	return findMount(f, fmt.Sprintf("%d:%d", major, minor))
}

// findMount returns the type of the mount of a device in the format of /proc/self/mountinfo.
func findMount(mountinfo io.Reader, device string) string {
	for lines := bufio.NewScanner(mountinfo); lines.Scan(); {
		before, after, _ := strings.Cut(lines.Text(), " - ")
		if fields := strings.Fields(before); len(fields) > 2 && fields[2] == device {
			kind, _, _ := strings.Cut(after, " ")
			return kind
		}
	}
	return ""
}

// readable returns why a file cannot be read, without opening it: closing it again would release SQLite's locks.
func readable(path string) error {
	const (
		here      = -100  // AT_FDCWD
		read      = 4     // R_OK
		effective = 0x200 // AT_EACCESS
	)
	return syscall.Faccessat(here, path, read, effective)
}
