package mount

import (
	"bytes"
	"os"
	"syscall"
)

const openPath = 0x200000 // O_PATH

func id(path string) string {
	fd, err := syscall.Open(path, openPath|syscall.O_CLOEXEC, 0)
	if err != nil {
		return ""
	}
	defer syscall.Close(fd)
	text, err := os.ReadFile("/proc/self/fdinfo/" + digits(fd))
	if err != nil {
		return ""
	}
	_, rest, _ := bytes.Cut(text, []byte("mnt_id:"))
	number, _, _ := bytes.Cut(rest, []byte("\n"))
	return string(bytes.TrimSpace(number))
}

// digits formats a number. With package strconv the guard of a CMD would begin later: see package early of the command.
func digits(n int) string {
	last := string(rune('0' + n%10))
	if n < 10 {
		return last
	}
	return digits(n/10) + last
}
