package quorum

import (
	"strconv"
	"strings"
)

// A claim that holds can get another record, and a node may miss one. So a record that replaced another has a version on the
// nodes, and of the records that a majority shows, the claim's is the one with the highest version:
//
//   - A version is above all versions that the claim has had and, like a ticket, ahead of the clocks of all nodes. So a
//     process that takes a claim over has a version above its predecessor's, however late the predecessor's request arrives.
//   - A node replaces one record, with its version, by another one of a higher version. So the version on a node only rises,
//     whatever comes late or twice.
//   - A renewal of a changed claim counts on a node only if the node has the claim's last record; a node that lags gets it
//     in the same call. So while the lease lasts, a majority has it, and any other majority shows it.

// versionMark begins a record that has a version. A record that begins like this by itself gets version 0.
const versionMark = "\t"

// WithVersion returns a record with its version, as a [Member] gets and shows it. A record that never replaced another has
// version 0, and is shown unchanged unless it begins like one with a version.
func WithVersion(record string, version int64) string {
	if version == 0 && !strings.HasPrefix(record, versionMark) {
		return record
	}
	return versionMark + strconv.FormatInt(version, 10) + "\n" + record
}

// CutVersion is the reverse of [WithVersion].
func CutVersion(text string) (record string, version int64) {
	rest, marked := strings.CutPrefix(text, versionMark)
	digits, record, ends := strings.Cut(rest, "\n")
	version, err := strconv.ParseInt(digits, 10, 64)
	if !marked || !ends || err != nil {
		return text, 0
	}
	return record, version
}

// later reports whether record a is later than b, by their versions. Two records of one version come from processes that
// asked at the same time; all clients choose the same one.
func later(a, b string) bool {
	_, of := CutVersion(a)
	_, than := CutVersion(b)
	return of > than || of == than && a > b
}
