package metrics

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stilelock/stile/driver"
)

// sentAt is when the requests of these tests are sent: at the beginning of each bubble.
var sentAt = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// Labels may have any text, and buckets count up.
func TestText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(func(name string) string { return name })
		name := "a\"b\\c\nd\xff"
		s.Entered(&driver.Claim{Name: name, ID: "x"}, 0, sentAt, &driver.Place{Ticket: 1, Holds: true, TTL: time.Hour}, nil)
		text := string(s.Text())
		for _, line := range []string{
			`stile_serve_held{class="a\"b\\c\nd` + "\uFFFD" + `"} 1`, `# TYPE stile_serve_held gauge`, `stile_serve_unfollowed_claims_total 0`,
			`stile_serve_wait_duration_seconds_bucket{class="a\"b\\c\nd` + "\uFFFD" + `",le="+Inf"} 1`,
		} {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("no line %s in\n%s", line, text)
			}
		}
	})
}

// The service follows a bounded number of claims. Claims beyond are counted, and those whose leases ended make room.
func TestClaimsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(nil)
		enter := func(id string) {
			s.Entered(&driver.Claim{Name: "a", ID: id}, 0, time.Now(), &driver.Place{Ticket: 1, Holds: true, TTL: time.Minute}, nil)
		}
		for i := range maxClaims + 10 {
			enter(strconv.Itoa(i))
		}
		if text := string(s.Text()); len(s.claims.of) != maxClaims || !strings.Contains(text, "\nstile_serve_unfollowed_claims_total 10\n") {
			t.Errorf("%d claims are followed; want %d, and the others counted:\n%s", len(s.claims.of), maxClaims, text)
		}
		time.Sleep(2 * time.Minute)
		enter("again")
		if len(s.claims.of) != 1 {
			t.Errorf("%d claims are followed after their leases have ended; want the new one", len(s.claims.of))
		}
	})
}

// Each end of a claim counts once, in whichever state the claim is.
func TestEnds(t *testing.T) {
	holds, waits := &driver.Place{Ticket: 1, Holds: true, TTL: time.Minute}, &driver.Place{Ticket: 1, TTL: time.Minute}
	enter := func(ticket int64, p *driver.Place) func(*Service, *driver.Claim) {
		return func(s *Service, c *driver.Claim) { s.Entered(c, ticket, sentAt, p, nil) }
	}
	renew := func(err error) func(*Service, *driver.Claim) {
		return func(s *Service, c *driver.Claim) {
			s.Renewed([]*driver.Claim{c}, sentAt, []driver.Renewal{{TTL: time.Minute, Err: err}})
		}
	}
	leave := func(err error) func(*Service, *driver.Claim) {
		return func(s *Service, c *driver.Claim) { s.Left(c, err) }
	}
	sent := func(s *Service, c *driver.Claim) { s.Leaves(c) }
	unknown := driver.Unknown(driver.ErrClosed)
	await := func(s *Service, c *driver.Claim) { s.Awaited(c, holds, nil) }
	var pass func(*Service, *driver.Claim) // the leases end
	for _, tt := range []struct {
		name  string
		steps []func(*Service, *driver.Claim)
		want  string
	}{
		{"released twice", []func(*Service, *driver.Claim){enter(0, holds), leave(nil), leave(driver.ErrGone)}, "hold_duration_seconds_count"},
		{"released and renewed", []func(*Service, *driver.Claim){enter(0, holds), leave(nil), renew(driver.ErrGone)}, "hold_duration_seconds_count"},
		{"a release of unknown outcome", []func(*Service, *driver.Claim){enter(0, holds), sent, leave(unknown)}, "hold_duration_seconds_count"},
		{"released again, since the outcome was unknown", []func(*Service, *driver.Claim){enter(0, holds), sent, leave(unknown), sent, leave(driver.ErrGone)},
			"hold_duration_seconds_count"},
		{"renewed while it leaves", []func(*Service, *driver.Claim){enter(0, holds), sent, renew(driver.ErrGone), leave(nil)}, "hold_duration_seconds_count"},
		{"lost before it leaves", []func(*Service, *driver.Claim){enter(0, holds), sent, leave(driver.ErrGone)}, "gone"},
		{"a release that was not sent, and a loss", []func(*Service, *driver.Claim){enter(0, holds), sent, leave(driver.Unsent(driver.ErrClosed)), renew(driver.ErrGone)},
			"gone"},
		{"lost", []func(*Service, *driver.Claim){enter(0, holds), renew(driver.ErrGone), renew(driver.ErrGone)}, "gone"},
		{"lost with its session", []func(*Service, *driver.Claim){enter(0, holds), renew(driver.ErrSession)}, "session"},
		{"broken", []func(*Service, *driver.Claim){enter(0, holds), renew(&driver.BrokenError{})}, "broken"},
		{"silent", []func(*Service, *driver.Claim){enter(0, holds), pass}, "silent"},
		{"given up", []func(*Service, *driver.Claim){enter(0, waits), leave(nil)}, "waits_given_up_total"},
		{"a place that was lost", []func(*Service, *driver.Claim){enter(0, waits), renew(driver.ErrGone)}, "waits_given_up_total"},
		{"a waiter that is silent", []func(*Service, *driver.Claim){enter(0, waits), pass}, "waits_given_up_total"},
		{"from elsewhere, and lost", []func(*Service, *driver.Claim){renew(nil), renew(driver.ErrGone)}, "gone"},
		{"from elsewhere, and released", []func(*Service, *driver.Claim){enter(1, holds), leave(nil)}, ""},
		{"from elsewhere, and silent", []func(*Service, *driver.Claim){renew(nil), pass}, ""},
		{"from elsewhere, and granted here", []func(*Service, *driver.Claim){enter(1, waits), await}, "held"},
		{"unknown, and granted here", []func(*Service, *driver.Claim){await, leave(nil)}, "hold_duration_seconds_count"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, c := New(nil), &driver.Claim{Name: "a", ID: "x", Wait: time.Minute}
				for _, step := range tt.steps {
					if step == nil {
						time.Sleep(2 * time.Minute)
					} else {
						step(s, c)
					}
				}
				text, got := string(s.Text()), []string(nil)
				for line, name := range map[string]string{
					`hold_duration_seconds_count{class=""} 1`: "hold_duration_seconds_count", `held{class=""} 1`: "held",
					`waits_given_up_total{class=""} 1`: "waits_given_up_total", `losses_total{class="",reason="gone"} 1`: "gone",
					`losses_total{class="",reason="session"} 1`: "session", `losses_total{class="",reason="broken"} 1`: "broken",
					`losses_total{class="",reason="silent"} 1`: "silent",
				} {
					lost := name == "hold_duration_seconds_count" && slices.Contains([]string{gone, session, broken}, tt.want)
					if strings.Contains(text, "\nstile_serve_"+line+"\n") && !lost {
						got = append(got, name)
					}
				}
				if strings.Join(got, " ") != tt.want {
					t.Errorf("it counts %q; want %q, in\n%s", got, tt.want, text)
				}
			})
		})
	}
}
