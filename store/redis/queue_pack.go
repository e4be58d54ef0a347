package redis

import (
	"encoding/binary"
	"math"
	"strings"
	"time"

	"github.com/stilelock/stile/driver"
)

// Parts of a claim that the client packs for the scripts: HEAD before the last ticket, the weight, the lock-delay, and the
// stored text of a claim after its state.
const (
	mark = "stile1"

	claimWeight     = len(mark) + 4
	claimDelay      = claimWeight + 4
	claimAfterState = claimDelay + 8
)

// packClaim returns these parts, one after the other.
func packClaim(c *driver.Claim) string {
	texts := [...]string{c.ID, c.Client, c.Owner, c.Record}
	size := claimAfterState + 2*len(texts)
	for _, text := range texts {
		size += len(text)
	}
	var b strings.Builder
	b.Grow(size)
	var room [claimAfterState - len(mark) + 2*len(texts)]byte
	fields := binary.BigEndian.AppendUint32(room[:0], uint32(c.Capacity)) //nolint:gosec // the portable layer bounds it
	fields = binary.BigEndian.AppendUint32(fields, uint32(c.Weight))      //nolint:gosec // no more than the capacity
	fields = binary.BigEndian.AppendUint64(fields, math.Float64bits(float64(micros(c.Delay))))
	for _, text := range texts {
		fields = binary.BigEndian.AppendUint16(fields, uint16(len(text))) //nolint:gosec // Enter checks the length
	}
	b.WriteString(mark)
	b.Write(fields)
	for _, text := range texts {
		b.WriteString(text)
	}
	return b.String()
}

// enterArgs returns the arguments of the scripts enter and stay beside the id, and their number.
func enterArgs(c *driver.Claim) (args [9]string, n int) {
	packed, flags := packClaim(c), ""
	if c.Try {
		flags = "t"
	}
	if c.Reclaim && c.Owner != "" {
		flags += "r"
	}
	args = [9]string{
		number(micros(c.TTL)), number(lives(c.TTL + c.Delay)),
		packed[:claimWeight], packed[claimWeight:claimDelay], packed[claimDelay:claimAfterState], packed[claimAfterState:],
		number(micros(c.Wait)), flags, number(c.Ticket),
	}
	if c.Ticket == 0 {
		return args, len(args) - 1
	}
	return args, len(args)
}

// lives returns for how many milliseconds the key must exist of a claim that runs out after d.
func lives(d time.Duration) int64 {
	return (micros(d)+999)/1000 + 1
}
