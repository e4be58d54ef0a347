package zookeeper_test

import (
	"strings"
	"testing"

	"github.com/stilelock/stile/driver"
	"github.com/stilelock/stile/internal/servertest"
	"github.com/stilelock/stile/store/zookeeper/internal/wire"
)

// Each code that refuses a claim's node has an outcome, and the session goes on or not.
func TestFaultTable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code        int32
		outcome     driver.Outcome
		unreachable bool
		says        string
	}{
		{noAuth, driver.OutcomeRefused, false, "its access list has no such permission"},
		{-114, driver.OutcomeRefused, false, "without user and password"},
		{-6, driver.OutcomeRefused, false, "zookeeper is too old"},
		{-125, driver.OutcomeRefused, false, "is used up"},
		{-5, driver.OutcomeRefused, false, "longer than zookeeper takes"},
		{-108, driver.OutcomeRefused, false, "another client's ephemeral node"},
		{-120, driver.OutcomeRefused, false, "localSessionsUpgradingEnabled"},
		{-8, driver.OutcomeRefused, false, "bad arguments"},
		{-99, driver.OutcomeRefused, false, "error -99"},
		{-127, driver.OutcomeRefused, true, "too many requests"},
		// The server, or another one, may have carried it out.
		{-1, driver.OutcomeUnknown, true, "system error"},
		{-3, driver.OutcomeUnknown, true, "not consistent"},
		{-4, driver.OutcomeUnknown, true, "lost the leader"},
		{-7, driver.OutcomeUnknown, true, "took too long"},
		{-122, driver.OutcomeUnknown, true, "took too long"},
		{-118, driver.OutcomeUnknown, true, "moved to another server"},
		{-119, driver.OutcomeUnknown, true, "read-only"},
		// The session is over.
		{-124, driver.OutcomeRefused, false, "does not accept"},
		{-115, driver.OutcomeRefused, false, "does not accept"},
	} {
		f := newFake(t, 0)
		d := open(t, "zk://"+f.addr)
		holder, c := claim("faults"), claim("faults")
		enter(t, d, holder, true)
		f.refuses(createNode, test.code)
		_, err := d.Enter(t.Context(), c)
		if err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("code %d: enter = %v; want that it says %q", test.code, err, test.says)
			continue
		}
		if driver.OutcomeOf(err) != test.outcome || driver.IsUnreachable(err) != test.unreachable {
			t.Errorf("code %d: %v is %v, unreachable %v; want %v, %v", test.code,
				err, driver.OutcomeOf(err), driver.IsUnreachable(err), test.outcome, test.unreachable)
		}
		f.refuses(createNode, 0)
		if test.code == -124 || test.code == -115 {
			continue
		}
		if err := reached(t, func() error { return d.Renew(t.Context(), []*driver.Claim{holder})[0].Err }); err != nil {
			t.Errorf("code %d: renewal of another claim = %v; want the session to go on", test.code, err)
		}
		enter(t, d, c, false)
		leave(t, d, c)
		if n := f.count(); n != 1 {
			t.Errorf("code %d: %d nodes stand; want the holder's", test.code, n)
		}
	}
}

// A used up quota refuses claims, and the error names its path.
func TestQuota(t *testing.T) {
	t.Parallel()
	s := servertest.ZooKeeper(t, "enforceQuota=true")
	d, a := open(t, "zk://"+s.Addr), newAdmin(t, s.Addr)
	c := claim("name")
	enter(t, d, c, true)
	a.create("/zookeeper/quota/stile", "/zookeeper/quota/stile/zookeeper_limits", "/zookeeper/quota/stile/zookeeper_stats")
	const quota = "/zookeeper/quota/stile/zookeeper_"
	a.do(
		wire.Set(quota+"stats", "count=3,bytes=0"),
		wire.Set(quota+"limits", "count=-1,bytes=-1;byteHardLimit=-1;countHardLimit=3"),
	)
	_, err := d.Enter(t.Context(), claim("name"))
	refuses(t, "a used up quota", err, true, false, "the quota at /stile/name is used up")
	leave(t, d, c)
}

// A session that is local to one server has no ephemeral nodes, unless the ensemble takes it over.
func TestLocalSessions(t *testing.T) {
	t.Parallel()
	for upgrade, want := range map[string]string{"true": "", "false": "localSessionsUpgradingEnabled"} {
		t.Run(upgrade, func(t *testing.T) {
			t.Parallel()
			e := ensemble(servertest.ZooKeeperEnsemble(t, 3, "localSessionsEnabled=true", "localSessionsUpgradingEnabled="+upgrade))
			e.led(t)
			d, c := open(t, e.url("")), claim("name")
			if want == "" {
				enter(t, d, c, true)
				if err := reached(t, func() error { return d.Renew(t.Context(), []*driver.Claim{c})[0].Err }); err != nil {
					t.Errorf("renewal = %v; want nil", err)
				}
				leave(t, d, c)
				return
			}
			_, err := d.Enter(t.Context(), c)
			refuses(t, "a local session", err, true, false, want)
		})
	}
}
