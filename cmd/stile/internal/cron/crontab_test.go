package cron

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/stilelock/stile/store/memory"
)

func TestCrontabSame(t *testing.T) {
	read := func(lines ...string) *entry {
		t.Helper()
		path := filepath.Join(t.TempDir(), "crontab")
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		list, err := readCrontab(path)
		if err != nil {
			t.Fatal(err)
		}
		return list[0]
	}
	const line = "@daily nightly --max-hold 1h -- figures"
	for _, tt := range []struct {
		other []string
		same  bool
	}{
		{[]string{line}, true}, {[]string{"# comment", "", "  " + line}, true},
		{[]string{"CRON_TZ=Europe/Berlin", line}, false}, {[]string{"PATH=/bin", line}, false}, {[]string{"SHELL=/bin/bash", line}, false},
		{[]string{"@daily nightly --max-hold 2h -- figures"}, false}, {[]string{"@daily nightly --max-hold 1h --missed all -- figures"}, false},
		{[]string{"@daily nightly --max-hold 1h -- figures  --all"}, false}, {[]string{"@hourly nightly --max-hold 1h -- figures"}, false},
	} {
		if got := read(line).same(read(tt.other...)); got != tt.same {
			t.Errorf("%s: got %v, want %v", fmt.Sprint(tt.other), got, tt.same)
		}
	}
}
