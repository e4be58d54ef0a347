package api

import (
	"fmt"
	"strconv"
	"strings"
)

// Version is the version of the API. Each path begins with it. It changes if a client or a service of the version before would
// misunderstand the other one. Other changes keep it:
//
//   - A new field of a request is left out unless the client needs its effect. A service that lacks it refuses the request, and
//     names the field.
//   - A new field of an answer may be ignored.
//   - A new code of an error answers only requests that use something else that is new: the outcome of an unknown code is unknown.
const Version = 1

// OtherVersion returns the error of a request for a path of another version, or nil.
func OtherVersion(path string) error {
	rest, numbered := strings.CutPrefix(path, "/v")
	number, _, _ := strings.Cut(rest, "/")
	n, bad := strconv.ParseUint(number, 10, 16)
	if numbered && bad == nil && n != Version {
		return fmt.Errorf("the lock service has version %d of its API, and the request is of version %d: upgrade the older of the two",
			Version, n)
	}
	return nil
}
