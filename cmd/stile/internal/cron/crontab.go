package cron

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/cmd/stile/internal/flags"
	"github.com/stilelock/stile/cmd/stile/internal/run"
	"github.com/stilelock/stile/cmd/stile/internal/store"
	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/exit"
	"github.com/stilelock/stile/internal/phrase"
	"github.com/stilelock/stile/jobs"
)

// An entry is one job of a crontab.
type entry struct {
	line     int
	schedule string // with its zone, if the file sets one
	name     string
	command  string   // for the shell
	shell    string   // its path
	env      []string // the settings above the line
	atLeast  flags.Duration
	maxHold  flags.Duration
	jitter   flags.Duration
	missed   jobs.Missed
}

// same reports whether two entries are the same job, on whatever line they are.
func (e *entry) same(o *entry) bool {
	a, b := *e, *o
	a.line, b.line = 0, 0
	env := slices.Equal(a.env, b.env)
	a.env, b.env = nil, nil
	return env && fmt.Sprint(a) == fmt.Sprint(b)
}

// A crontab is the state of reading a file.
type crontab struct {
	path    string
	entries []*entry
	zone    string // for the lines below; empty means UTC
	shell   string
	env     []string
}

// byteOrderMark begins a text of UTF-8 from some editors.
const byteOrderMark = "\ufeff"

// readCrontab reads a file of jobs. An error names the file and the line.
func readCrontab(path string) ([]*entry, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, exit.Usage("%w", err)
	}
	t := &crontab{path: path, shell: "/bin/sh"}
	number := 0
	for line := range strings.Lines(strings.TrimPrefix(string(text), byteOrderMark)) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if err := t.read(number, line); err != nil {
			return nil, exit.Usage("%s:%d: %w", path, number, err)
		}
	}
	return t.entries, checkEntries(path, t.entries)
}

var setting = regexp.MustCompile(`^([A-Za-z_]\w*)\s*=\s*(.*)$`)

func (t *crontab) read(number int, line string) error {
	if i := strings.IndexByte(line, 0); i >= 0 {
		return fmt.Errorf("the line has a zero byte after %d others, which no command can have", i)
	}
	set := setting.FindStringSubmatch(line)
	zoned := set != nil && (set[1] == "CRON_TZ" || set[1] == "TZ") && strings.ContainsAny(set[2], " \t")
	if set == nil || zoned {
		return t.job(number, line)
	}
	key, value := set[1], unquoted(set[2])
	switch {
	case strings.HasPrefix(key, "STILE_"):
		return fmt.Errorf("%s cannot be set here: the store is that of --url, or of STILE_URL in the environment of stile cron",
			key)
	case key == "CRON_TZ":
		if _, err := time.LoadLocation(value); err != nil || value == "" || value == "Local" {
			return fmt.Errorf("CRON_TZ: no time zone %s is known here: want a name like Europe/Berlin", phrase.Shortened(value))
		}
		t.zone = value
		return nil
	case key == "SHELL":
		if err := checkShell(value); err != nil {
			return err
		}
		t.shell = value
	}
	t.env = append(run.Without(t.env, key), key+"="+value)
	return nil
}

// checkShell returns an error if a shell cannot run. A machine without the shell would take ticks from machines that have
// it.
func checkShell(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("SHELL %s is not an absolute path: want one like /bin/bash", phrase.Shortened(path))
	}
	if _, err := run.Lookup(path); err != nil {
		return fmt.Errorf("SHELL: %w", err)
	}
	return nil
}

// unquoted removes the quotes around a whole value.
func unquoted(value string) string {
	if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
		return value[1 : n-1]
	}
	return value
}

// job reads the line of a job: SCHEDULE NAME [flags] -- CMD.
func (t *crontab) job(number int, line string) error {
	fields, rest := split(line)
	n := scheduleLength(fields)
	if len(fields) <= n {
		return errors.New("there is no NAME after the schedule; a line is: SCHEDULE NAME [flags] -- CMD")
	}
	dash := slices.Index(fields, "--")
	switch {
	case dash < 0:
		return errors.New("there is no -- between NAME and CMD; a line is: SCHEDULE NAME [flags] -- CMD")
	case dash < n+1:
		return fmt.Errorf("there is no NAME between the schedule, which has %d words here, and --", n)
	case dash == len(fields)-1:
		return errors.New("there is no CMD after --")
	}
	e := &entry{
		line: number, schedule: strings.Join(fields[:n], " "), name: fields[n], command: rest[dash], shell: t.shell,
		env: slices.Clone(t.env),
	}
	if t.zone != "" && !strings.Contains(fields[0], "TZ=") && fields[0] != "@every" {
		e.schedule = "CRON_TZ=" + t.zone + " " + e.schedule
	}
	if i := slices.IndexFunc(t.entries, func(o *entry) bool { return o.name == e.name }); i >= 0 {
		return fmt.Errorf("job %s is on line %d too: a name has one schedule", phrase.Shortened(e.name), t.entries[i].line)
	}
	if err := driver.CheckName(e.name + "/last"); err != nil {
		return fmt.Errorf("NAME %s, with /last after it: %w", phrase.Shortened(e.name), err)
	}
	t.entries = append(t.entries, e)
	return e.flags(fields[n+1 : dash])
}

// scheduleLength returns the number of words of a line's schedule.
func scheduleLength(fields []string) int {
	n := 0
	if strings.HasPrefix(fields[0], "CRON_TZ=") || strings.HasPrefix(fields[0], "TZ=") {
		n = 1
	}
	switch {
	case len(fields) > n && fields[n] == "@every":
		return n + 2
	case len(fields) > n && strings.HasPrefix(fields[n], "@"):
		return n + 1
	}
	return n + 5
}

// flags reads the words between NAME and --.
func (e *entry) flags(args []string) error {
	missed := "skip"
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	f.Var(&e.atLeast, "at-least", "")
	f.Var(&e.maxHold, "max-hold", "")
	f.Var(&e.jitter, "jitter", "")
	f.StringVar(&missed, "missed", missed, "")
	const known = "a job can have --at-least, --max-hold, --jitter and --missed"
	if err := f.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return errors.New("unknown flag: --help; " + known)
		} else if _, ok := errors.AsType[*pflag.NotExistError](err); ok {
			return fmt.Errorf("%w; %s", err, known)
		}
		return err
	}
	if f.Changed("max-hold") && e.maxHold < flags.Duration(time.Second) {
		return fmt.Errorf("--max-hold %v is too short to end CMD in: it must be 1s or more", time.Duration(e.maxHold))
	}
	if len(f.Args()) > 0 {
		return fmt.Errorf("%s is more than a NAME, which has no blanks here, and flags", phrase.Shortened(f.Arg(0)))
	}
	words := []string{"skip", "once", "all"}
	if e.missed = jobs.Missed(slices.Index(words, missed)); e.missed < 0 {
		return fmt.Errorf("--missed %s: it must be skip, once or all", phrase.Shortened(missed))
	}
	return nil
}

// split returns the words of a line, and for each word the rest of the line after it.
func split(line string) (fields, rest []string) {
	for line = strings.TrimLeft(line, " \t"); line != ""; {
		word, after := line, ""
		if end := strings.IndexAny(line, " \t"); end >= 0 {
			word, after = line[:end], strings.TrimLeft(line[end:], " \t")
		}
		fields, rest = append(fields, word), append(rest, after)
		line = after
	}
	return fields, rest
}

// job makes the job of an entry.
func (e *entry) job(c *stile.Client, work func(context.Context) error, report func(jobs.Result)) (*jobs.Job, error) {
	return jobs.New(c, e.name, e.schedule, work, &jobs.Options{
		AtLeast: time.Duration(e.atLeast), MaxHold: time.Duration(e.maxHold), Jitter: time.Duration(e.jitter), Missed: e.missed,
		Report: report,
	})
}

// checkEntries finds mistakes in the schedules and their options, without a store.
func checkEntries(path string, entries []*entry) error {
	c, err := store.Nothing(context.Background())
	if err != nil {
		return err
	}
	defer c.Close()
	for _, e := range entries {
		if _, err := e.job(c, func(context.Context) error { return nil }, nil); err != nil {
			return e.wrong(path, err)
		}
	}
	return nil
}

// flagWords replaces the option names of package jobs by the names of flags.
var flagWords = strings.NewReplacer("AtLeast", "--at-least", "MaxHold", "--max-hold", "Jitter", "--jitter")

// wrong turns package jobs's error about an entry into one in the words of the file.
func (e *entry) wrong(path string, err error) error {
	job := fmt.Sprintf("job %q: ", e.name)
	return exit.Usage("%s:%d: %s%s", path, e.line, job, flagWords.Replace(strings.TrimPrefix(err.Error(), "jobs: "+job)))
}
