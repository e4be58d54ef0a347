package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// A schedule returns the times at which a job is due. It depends only on the clock, so all machines compute the same ticks.
type schedule interface {
	next(after time.Time) time.Time // the first tick after a moment; zero if there is none
}

// every ticks at the multiples of a period, counted from the beginning of the year 1, UTC.
type every time.Duration

func (e every) next(after time.Time) time.Time {
	return after.Truncate(time.Duration(e)).Add(time.Duration(e))
}

// parse reads a cron expression of five fields, @hourly and its siblings, or @every with a duration. The zone is before it,
// as CRON_TZ=Europe/Berlin, or is the given one.
func parse(text string, zone *time.Location) (schedule, error) {
	s, err := parsed(text, zone)
	if err != nil {
		return nil, fmt.Errorf("schedule %q: %w", text, err)
	}
	if s.next(time.Now()).IsZero() {
		return nil, fmt.Errorf("schedule %q: no day of the next five years is meant", text)
	}
	return s, nil
}

func parsed(text string, zone *time.Location) (schedule, error) {
	fields, at := split(text)
	if len(fields) > 0 {
		if key, name, ok := strings.Cut(fields[0], "="); ok {
			if key != "CRON_TZ" && key != "TZ" {
				return nil, fmt.Errorf("column 1: %q: only CRON_TZ can be set here", key)
			}
			var err error
			if zone, err = time.LoadLocation(name); err != nil || name == "" || name == "Local" {
				return nil, fmt.Errorf("column %d: no time zone %q is known here: want a name like Europe/Berlin",
					at[0]+len(key)+1, name)
			}
			fields, at = fields[1:], at[1:]
		}
	}
	switch {
	case len(fields) == 0:
		return nil, errors.New("empty: want five fields (minute, hour, day, month, weekday), @daily, or @every 10m")
	case fields[0] == "@every":
		return parseEvery(fields, at)
	case strings.HasPrefix(fields[0], "@"):
		if len(fields) > 1 {
			return nil, fmt.Errorf("column %d: nothing can follow %s", at[1], fields[0])
		}
		return parseFields(fields, at, zone)
	case len(fields) != 5:
		return nil, fmt.Errorf("%d fields: want five: minute, hour, day, month, weekday", len(fields))
	}
	return parseFields(fields, at, zone)
}

func parseEvery(fields []string, at []int) (schedule, error) {
	if len(fields) != 2 {
		return nil, fmt.Errorf("column %d: @every takes one duration, like 10m", at[0])
	}
	d, err := time.ParseDuration(fields[1])
	if err != nil || d < time.Second {
		return nil, fmt.Errorf("column %d: %q: want a duration of a second or more, like 90s, 10m or 1h30m", at[1], fields[1])
	}
	return every(d), nil
}

var (
	parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)
	names  = [5]string{"minute", "hour", "day", "month", "weekday"}
	counts = [5]int{60, 24, 31, 12, 7} // the number of values of each field
)

const weekday = 4

// checkField refuses fields that the parser accepts although they make no sense.
func checkField(i int, field string) error {
	for part := range strings.SplitSeq(field, ",") {
		_, step, _ := strings.Cut(part, "/")
		n, err := strconv.Atoi(step)
		switch {
		case part == "":
			return fmt.Errorf("%q has a comma with nothing beside it", field)
		case err == nil && n > counts[i]:
			return fmt.Errorf("a step of %d is longer than all there is: %q", n, field)
		}
	}
	return nil
}

// sunday writes the weekday 7 as 0, the parser's Sunday. 7 may also end a range.
func sunday(field string) string {
	parts := strings.Split(field, ",")
	for i, part := range parts {
		days, step, stepped := strings.Cut(part, "/")
		first, ok := strings.CutSuffix(days, "-7")
		from, err := strconv.Atoi(first)
		by, bad := strconv.Atoi(step)
		switch {
		case part == "7":
			parts[i] = "0"
		case !ok || err != nil || from < 0 || from > 7 || stepped && (bad != nil || by < 1):
		default:
			var list []string
			for day := from; day <= 7; day += max(1, by) {
				list = append(list, strconv.Itoa(day%7))
			}
			parts[i] = strings.Join(list, ",")
		}
	}
	return strings.Join(parts, ",")
}

// parseFields leaves the meaning of the fields to the parser, and the zone to wallClock.
func parseFields(fields []string, at []int, zone *time.Location) (schedule, error) {
	if len(fields) == len(names) {
		for i, field := range fields {
			if err := checkField(i, field); err != nil {
				return nil, fmt.Errorf("column %d, %s: %w", at[i], names[i], err)
			}
		}
		fields = append(slices.Clone(fields[:weekday]), sunday(fields[weekday]))
	}
	s, err := parser.Parse(strings.Join(fields, " "))
	if err == nil {
		spec := s.(*cron.SpecSchedule)
		spec.Location = time.UTC
		return &wallClock{spec: spec, zone: zone}, nil
	}
	for i, field := range fields {
		alone := [5]string{"*", "*", "*", "*", "*"}
		alone[i] = field
		if _, err := parser.Parse(strings.Join(alone[:], " ")); err != nil && len(fields) == 5 {
			return nil, fmt.Errorf("column %d, %s: %w", at[i], names[i], err)
		}
	}
	return nil, fmt.Errorf("column %d: %w", at[0], err)
}

// split returns the fields, and the columns at which they begin, counted from 1.
func split(text string) (fields []string, at []int) {
	column := 1
	for text != "" {
		rest := strings.TrimLeft(text, " \t")
		column += len(text) - len(rest)
		end := strings.IndexAny(rest+" ", " \t")
		if end > 0 {
			fields, at = append(fields, rest[:end]), append(at, column)
		}
		column, text = column+end, rest[end:]
	}
	return fields, at
}
