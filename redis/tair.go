package redis

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
	"github.com/stilelock/stile/driver"
)

// layoutExSet is a SetNX's with TairStrings in place of strings.
const layoutExSet = "exset"

//go:embed lua/exset/keys.lua
var exSetKeysLua string

func init() {
	for _, scheme := range []string{"tair", "tairs"} {
		driver.Register(scheme, openTair)
	}
}

// openTair opens the driver of a layout at the address of a Tair, which speaks Redis' protocol and has more commands:
//
//	tair://[user:password@]host[:6379][/database]
//
// or tairs by TLS, with the parameters of [Open].
func openTair(ctx context.Context, a *driver.Address) (driver.Driver, error) {
	layout, prefix := a.Param("layout", layoutQueue), a.Param("prefix", "")
	if layout != layoutQueue && layout != layoutSetNX && layout != layoutExSet {
		return nil, driver.Refused(fmt.Errorf("parameter layout: %q is none of %s, %s and %s", layout, layoutQueue, layoutSetNX, layoutExSet))
	}
	if len(a.Hosts) > 1 {
		return nil, driver.Refused(fmt.Errorf("%s:// takes one host", a.Scheme))
	}
	d, err := Open(ctx, a)
	if err != nil {
		return nil, err
	}
	d.traits.Store = "tair"
	if layout == layoutQueue {
		return d, nil
	}
	t, err := newTair(ctx, d, layout, prefix)
	if err != nil {
		d.Close()
		return nil, err
	}
	return t, nil
}

// newTair makes the driver of a layout other than the queue, as far as the server has the commands for it.
func newTair(ctx context.Context, d *Driver, layout, prefix string) (driver.Driver, error) {
	s := newSetNX(d, prefix)
	if layout == layoutSetNX {
		missing, err := d.lacks(ctx, "CAS", "CAD")
		if err != nil {
			return nil, err
		}
		if len(missing) == 0 {
			return newCompared(s), nil
		}
		d.traits.Notes = append(d.traits.Notes,
			"The server has no commands CAS and CAD, so claims are renewed and released by scripts.")
		return s, nil
	}
	missing, err := d.lacks(ctx, "EXGET", "EXSET", "EXCAD")
	if err != nil {
		return nil, err
	}
	if len(missing) > 0 {
		return nil, driver.Refused(fmt.Errorf("layout %s needs TairString, and the server has no command %s: load the module, or use layout %s",
			layoutExSet, strings.Join(missing, ", "), layoutSetNX))
	}
	s.layout, s.scripts = layoutExSet, newSetNXScripts(exSetKeysLua, false)
	return s, nil
}

// lacks returns which of some commands the server does not have. They are asked for without arguments, which no server
// acts on; whoever has the command says so.
func (d *Driver) lacks(ctx context.Context, commands ...string) (missing []string, err error) {
	for _, command := range commands {
		refusal, ok := rueidis.IsRedisErr(d.client.Do(ctx, d.client.B().Arbitrary(command).Build()).Error())
		switch {
		case ok && strings.Contains(refusal.Error(), "unknown command"):
			missing = append(missing, command)
		case ok && strings.Contains(refusal.Error(), "wrong number of arguments"):
		case ok:
			return nil, d.refused(refusal.Error())
		default:
			return nil, driver.Unreachable(fmt.Errorf("the server did not say whether it has command %s", command))
		}
	}
	return missing, nil
}
