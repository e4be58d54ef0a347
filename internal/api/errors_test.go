package api_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/api"
)

// sentinels are the errors of package driver without fields.
var sentinels = []error{driver.ErrGone, driver.ErrSession, driver.ErrUnsupported, driver.ErrClosed, driver.ErrForeign, api.ErrOtherStore, api.ErrTooMany}

// facts are all facts that a caller can find out about an error.
func facts(err error) string {
	var s strings.Builder
	fmt.Fprint(&s, driver.OutcomeOf(err), " unreachable=", driver.IsUnreachable(err))
	for _, e := range sentinels {
		if errors.Is(err, e) {
			fmt.Fprintf(&s, " is %q", e)
		}
	}
	if e, ok := errors.AsType[*driver.CapacityError](err); ok {
		fmt.Fprintf(&s, " capacity %+v", *e)
	}
	if e, ok := errors.AsType[*driver.BrokenError](err); ok {
		fmt.Fprintf(&s, " broken %+v", *e)
	}
	if e, ok := errors.AsType[*driver.RecordError](err); ok {
		fmt.Fprintf(&s, " record %+v", *e)
	}
	if e, ok := errors.AsType[*driver.MissingError](err); ok {
		fmt.Fprintf(&s, " missing %+v", *e)
	}
	return s.String()
}

// travel sends an error through JSON.
func travel(t *testing.T, err error) error {
	t.Helper()
	text, jerr := json.Marshal(api.NewError(err))
	if jerr != nil {
		t.Fatal(jerr)
	}
	e, ok := api.ReadError(text)
	if !ok {
		t.Fatalf("%s is no error of the service", text)
	}
	return e.Err()
}

// Every error of package driver, under every mark, says the same on the other side.
func TestErrorsKeepTheirMeaning(t *testing.T) {
	marks := map[string]func(error) error{
		"plain":       func(err error) error { return err },
		"wrapped":     func(err error) error { return fmt.Errorf("store a: %w", err) },
		"refused":     driver.Refused,
		"unsent":      driver.Unsent,
		"unknown":     driver.Unknown,
		"not yet":     driver.NotYet,
		"afterwards":  driver.Afterwards,
		"unreachable": driver.Unreachable,
		"loading":     func(err error) error { return driver.Unreachable(driver.Refused(err)) },
		"no link":     func(err error) error { return driver.Unsent(driver.Unreachable(err)) },
	}
	for _, err := range []error{
		driver.ErrGone, driver.ErrSession, driver.ErrUnsupported, driver.ErrForeign, api.ErrOtherStore, api.ErrTooMany,
		&driver.CapacityError{Have: 3, Want: driver.All},
		&driver.BrokenError{}, &driver.BrokenError{Record: "\xffby hand"},
		&driver.RecordError{Have: "\x00was"},
		&driver.MissingError{Scheme: "redis"},
		io.ErrUnexpectedEOF,
	} {
		for name, mark := range marks {
			marked := mark(err)
			got := travel(t, marked)
			if facts(got) != facts(marked) || got.Error() != marked.Error() {
				t.Errorf("%s %T:\n%s (%v)\nbecomes\n%s (%v)", name, err, facts(marked), marked, facts(got), got)
			}
		}
	}
	if api.NewError(nil) != nil || (*api.Error)(nil).Err() != nil {
		t.Error("no error becomes an error")
	}
}

// A service that closes its store says nothing about its client, which is not closed.
func TestClosedStoreIsUnreachable(t *testing.T) {
	for _, err := range []error{driver.ErrClosed, driver.Unknown(driver.ErrClosed), fmt.Errorf("store a: %w", driver.ErrClosed)} {
		got := travel(t, err)
		if errors.Is(got, driver.ErrClosed) || !driver.IsUnreachable(got) || driver.OutcomeOf(got) != driver.OutcomeOf(err) {
			t.Errorf("%v becomes %v (%s); want the same outcome, and a store that cannot be reached", err, got, facts(got))
		}
	}
}

// A message has one line and a largest size.
func TestMessagesArePlain(t *testing.T) {
	got := travel(t, errors.New("a\nb\x1b[2J"+strings.Repeat("é", 4000))).Error()
	if strings.ContainsAny(got, "\n\x1b") || len(got) > 1000 || !strings.HasPrefix(got, "a b") {
		t.Errorf("the message is %q", got)
	}
}

// Text that is not the service's error is no verdict.
func TestOthersErrorsAreNotRead(t *testing.T) {
	for _, text := range []string{
		"", "<html>502 Bad Gateway</html>", "{}", `{"message":"no"}`, `{"code":"gone"}`, `{"code":"gone","outcome":"lost"}`,
		`{"code":"teapot","outcome":"refused"}`, `{"code":404,"outcome":"refused"}`, `[]`,
	} {
		if e, ok := api.ReadError([]byte(text)); ok {
			t.Errorf("%s is read as %+v", text, e)
		}
	}
	// One inside of an answer of the service, such as a newer service may send, says nothing either.
	if err := (&api.Error{Code: "teapot", Outcome: "refused"}).Err(); driver.OutcomeOf(err) != driver.OutcomeUnknown {
		t.Errorf("an error with an unknown code is %v; want an unknown outcome", facts(err))
	}
}
