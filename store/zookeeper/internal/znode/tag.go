package znode

import (
	"fmt"
	"strings"

	"github.com/stilelock/stile/driver"
)

// The parents of a semaphore's nodes, below its name.
const (
	LocksDir  = "/locks"
	LeasesDir = "/leases"
)

// MaxPermits is how many nodes a claim may have under leases.
const MaxPermits = 128

// PartID returns the id of a part of a claim: the claim's id and the tag of the node.
func PartID(id, tag string) string { return id + "/" + tag }

// CutPart splits the id of a part.
func CutPart(id string) (whole, tag string) {
	i := strings.LastIndexByte(id, '/')
	if i < 0 {
		return id, ""
	}
	return id[:i], id[i+1:]
}

// partStem returns the name of a part's node, up to the number. All parts of a claim begin with the claim's guid.
func partStem(id, word string) string {
	whole, tag := CutPart(id)
	return GUID(whole) + tag + "-" + word
}

// ShapeTag returns the part of a node's name with the weight and capacity of its claim. Other clients' nodes have no such
// tag.
func ShapeTag(c *driver.Claim) string {
	if c.Weight == driver.All {
		return "x"
	}
	return fmt.Sprintf("p%dof%d", c.Weight, c.Capacity)
}

// ReadTag reads weight and capacity from the name of a semaphore's node, and the key with which all nodes of its claim
// begin. It returns false for another client's node.
func ReadTag(name, word string) (key string, weight, capacity int64, ok bool) {
	at := strings.LastIndex(name, word)
	size := len(GUID(""))
	if at <= size || !strings.HasPrefix(name, "_c_") {
		return name, 0, 0, false
	}
	tag, ok := strings.CutSuffix(strings.TrimLeft(name[size:at], "0123456789"), "-")
	if ok && tag == "x" {
		return name[:size], driver.All, driver.All, true
	}
	n := Node{Weight: driver.All, Capacity: driver.All}
	n.shape("-" + tag + "-")
	if !ok || fmt.Sprintf("p%dof%d", n.Weight, n.Capacity) != tag {
		return name, 0, 0, false
	}
	return name[:size], n.Weight, n.Capacity, true
}

// permit sets the weight of a node under leases: one permit, or all for a mutex. The capacity of another client's semaphore
// is unknown, and stays 0.
func (n *Node) permit() {
	_, weight, capacity, ok := ReadTag(n.Name, LeaseWord)
	n.Weight, n.Capacity = 1, capacity
	if ok && weight == driver.All {
		n.Weight = driver.All
	}
}

// adopt gives the permits of other clients the capacity of stile's claims. Beside a mutex, or readers and writers, each of
// them counts as a mutex.
func adopt(q Queue) {
	capacity := int64(0)
	for _, n := range q {
		if capacity == 0 {
			capacity = n.Capacity
		}
	}
	for i := range q {
		if q[i].Capacity != 0 {
			continue
		}
		if q[i].Capacity = capacity; capacity == driver.All {
			q[i].Weight = driver.All
		}
	}
}
