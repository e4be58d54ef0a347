package quorum

import (
	"strconv"
	"strings"
)

// A claim that holds can get another record, and not every node hears of every one. So a record that replaced another has a
// version on the nodes, and of the records that a majority shows the one with the highest version is the claim's:
//
//   - A version is above all that the claim has had, and, as a ticket is, ahead of the clocks of all nodes. So the one of a process
//     that takes a claim over is above what its predecessor asked for, however late that arrives.
//   - A node is asked to replace one record, with its version, by another of a higher version. So the version on a node only
//     rises, whatever comes late or twice.
//   - A renewal of a claim that was changed counts on a node only if the claim has its last record there; a node that lags is
//     brought up to it in the same call. So as long as the lease lasts, a majority has it, and any other majority shows it.

// versionMark begins a record that has a version. Another record that begins so has version 0.
const versionMark = "\t"

// WithVersion returns a record with its version, as a [Member] gets and shows it. One that never replaced another has version
// 0, and is mostly shown as it is.
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

// later reports whether of two records, with their versions, the first is the later one. Two of one version are different
// processes' that asked at the same time; all who look choose the same.
func later(a, b string) bool {
	_, of := CutVersion(a)
	_, than := CutVersion(b)
	return of > than || of == than && a > b
}
