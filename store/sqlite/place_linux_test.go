package sqlite

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestClassify(t *testing.T) {
	tests := []struct {
		magic uint32
		mount string
		want  string
	}{
		{0xef53, "", ""},
		{0x01021994, "", ""}, // tmpfs
		{0x58465342, "", ""}, // xfs
		{0x794c7630, "", ""}, // overlay
		{0x6969, "", "NFS"},
		{0xff534d42, "", "CIFS"},
		{0xfe534d42, "", "SMB2"},
		{0x517b, "", "SMB"},
		{0x01021997, "", "9P"},
		{0x00c36400, "", "Ceph"},
		{fuse, "fuse.sshfs", "sshfs"},
		{fuse, "fuse.rclone", "rclone"},
		{fuse, "virtiofs", "virtiofs"},
		{fuse, "fuse.bindfs", ""},
		{fuse, "fuseblk", ""},
		{fuse, "", ""},
	}
	for _, tt := range tests {
		if got := classify(tt.magic, tt.mount); got != tt.want {
			t.Errorf("classify(%#x, %q) = %q; want %q", tt.magic, tt.mount, got, tt.want)
		}
	}
}

func TestFindMount(t *testing.T) {
	const table = `22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
40 27 0:45 / /mnt/with\040space rw,nosuid shared:7 master:2 - fuse.sshfs ann@host:/home rw,user_id=0
`
	for device, want := range map[string]string{"0:21": "proc", "254:0": "ext4", "0:45": "fuse.sshfs", "9:9": "", "": ""} {
		if got := findMount(strings.NewReader(table), device); got != want {
			t.Errorf("findMount(%q) = %q; want %q", device, got, want)
		}
	}
}

// The device of a real file must be in the real table.
func TestMountType(t *testing.T) {
	dir := t.TempDir()
	if got := mountType(filepath.Join(dir, "missing"), dir); got == "" {
		t.Errorf("the file system of %s is not found", dir)
	}
	if got := mountType("/proc/self/status", os.TempDir()); got != "proc" {
		t.Errorf("the file system of /proc is %q; want proc", got)
	}
	if got := networkFS(filepath.Join(dir, "missing"), dir); got != "" {
		t.Errorf("the temporary directory is on %s; want a local file system", got)
	}
}
