package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/stilelock/stile"
	"github.com/stilelock/stile/internal/answer"
	"github.com/stilelock/stile/internal/phrase"
	"github.com/stilelock/stile/jobs"
)

// A ShownView is the JSON of a name in stile show.
type ShownView struct {
	QueueView
	Job *jobView `json:"job"` // null if the name is no job's, or if the store has no record of it
}

// A jobView is the last tick of a job in JSON.
type jobView struct {
	Tick    string         `json:"tick"`
	State   string         `json:"state"`   // started or over
	Outcome string         `json:"outcome"` // of a run that is over
	Error   string         `json:"error"`
	Took    answer.Seconds `json:"took"`
	Token   string         `json:"token"`
	Next    string         `json:"next"` // empty if there is none
	Owner   string         `json:"owner"`
	Program string         `json:"program"`
	Host    string         `json:"host"`
	PID     int            `json:"pid"`
}

// pastOf returns the record of the job of a name, or nil if it is no job's.
func pastOf(ctx context.Context, c *stile.Client, name string) (*jobs.Past, error) {
	p, err := jobs.Last(ctx, c, name)
	if errors.Is(err, stile.ErrForeign) || errors.Is(err, stile.ErrInvalid) { // NAME/last has another use, or is too long
		return nil, nil //nolint:nilnil // no job is no error
	}
	if err != nil || p.Tick.IsZero() {
		return nil, err
	}
	return &p, nil
}

func jobViewOf(p *jobs.Past) *jobView {
	if p == nil {
		return nil
	}
	v := &jobView{
		Tick: p.Tick.UTC().Format(time.RFC3339), State: "started", Outcome: string(p.Outcome), Error: p.Err,
		Took:  answer.SecondsOf(p.Took),
		Token: strconv.FormatInt(p.Ticket, 10), Owner: p.By.Owner, Program: p.By.Program, Host: p.By.Host, PID: p.By.PID,
	}
	if p.Over {
		v.State = "over"
	}
	if !p.Next.IsZero() {
		v.Next = p.Next.UTC().Format(time.RFC3339)
	}
	return v
}

// showPast writes the last and the next tick of a job for a person. The queue shows whether a run goes on.
func showPast(w io.Writer, p *jobs.Past, q stile.Queue) error {
	if p == nil {
		return nil
	}
	became := "its run was cut off"
	switch {
	case p.Over && p.Err != "":
		became = fmt.Sprintf("%s after %v: %s", p.Outcome, phrase.Rounded(p.Took), p.Err)
	case p.Over:
		became = fmt.Sprintf("%s after %v", p.Outcome, phrase.Rounded(p.Took))
	case len(q.Claims) > 0 && stateOf(q.Claims[0]) == "holds":
		became = "runs now"
	}
	if _, err := fmt.Fprintf(w, "last tick %s: %s, with ticket %d, by %s\n", p.Tick.UTC().Format(time.RFC3339),
		phrase.Printable(became), p.Ticket, phrase.Printable(p.By.String())); err != nil || p.Next.IsZero() {
		return err
	}
	_, err := fmt.Fprintf(w, "next tick %s\n", p.Next.UTC().Format(time.RFC3339))
	return err
}
