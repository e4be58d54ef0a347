package wire

// ephemeral is the kind of a node that goes with its session and has exactly the requested name.
const ephemeral int32 = 1

// runtimeInconsistency is the answer to the other parts of a multi-request when one part was refused.
const runtimeInconsistency Code = -2

// Replace replaces an ephemeral node by another one, in one step: nobody sees both, or neither. It is refused with
// [BadVersion] or [NoNode] if the old node does not exist in that version. The call's Stat may stay empty.
//
// A watch on the old node reports a change of the data, not the deletion: Replace writes the data first, and a watch fires
// once. So a node whose deletion is reported has no replacement.
func Replace(old string, version int32, path, data string, acl ACL) *Call {
	body := putInt(putBool(putInt(nil, opCreate2), false), -1)
	body = putInt(acl.put(putText(putText(body, path), data)), ephemeral)
	body = putInt(putBool(putInt(body, opSetData), false), -1)
	body = putInt(putText(putText(body, old), data), version)
	body = putInt(putBool(putInt(body, opDelete), false), -1)
	body = putInt(putText(body, old), -1)
	body = putInt(putBool(putInt(body, -1), true), -1)
	c := newCall(opMulti, path, body, replaced)
	c.agreed = true
	return c
}

// replaced reads the answers to the parts of Replace.
func replaced(c *Call, r *reader) {
	for {
		kind, done, _ := r.int(), r.bool(), r.int()
		switch {
		case done || r.err != nil:
			return
		case kind == opCreate: // servers use this number for the other create request, and then send no Stat
			c.Path = r.text()
		case kind == opCreate2:
			c.Path, c.Stat = r.text(), r.stat()
		case kind == opSetData:
			r.stat()
		case kind == opDelete: // has no further content
		default: // an error, also in place of a part that was done and undone
			if code := Code(r.int()); code != 0 && code != runtimeInconsistency && c.Err == nil {
				c.Err = code
			}
		}
	}
}
