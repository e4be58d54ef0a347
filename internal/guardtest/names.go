package guardtest

import (
	"math"
	"strings"
)

// Names are resources that a guard must keep apart, one from the other and from the statements and keys that they get into.
var Names = []string{
	"a", "A", "a ", " a", "ä", "a\u0308", "a%", "a_", "a.b", "a/../b", ".", "..", "/", "%00", "{a}", "{a}b", "0", "00",
	"'", "''", `"`, "`", `\`, `\'`, "$1", "?", ":a", "@a", ";", "--", "/*", "NULL", "人", "😀",
	`'; DROP TABLE stile_guard; --`, `" OR ""="`, "`; DELETE FROM stile_guard; --", `') ON CONFLICT DO NOTHING; --`,
	strings.Repeat("n", 255), strings.Repeat("n", 254) + "m", strings.Repeat("ä", 127), strings.Repeat("%", 255),
}

// BadNames are no resources.
var BadNames = []string{"", "a\x00", "\x00", "a\nb", "\x7f", "\xff", "a\xc3", strings.Repeat("n", 256),
	strings.Repeat("ä", 128)}

// Tokens are in rising order: the limits, and the bounds of 32-bit and floating-point numbers.
var Tokens = []int64{1, 2, 9, 10, 1<<31 - 1, 1 << 31, 1 << 32, 1<<53 - 1, 1 << 53, 1<<53 + 1, 1<<53 + 2,
	math.MaxInt64 - 1, math.MaxInt64}
