package wire

// ephemeral is the kind of a node that goes with its session and is called as it was asked for.
const ephemeral int32 = 1

// runtimeInconsistency is what a multi-request says of the parts beside the one that was refused.
const runtimeInconsistency Code = -2

// Replace puts one ephemeral node in the place of another, in one step: nobody sees both, or neither. It is refused with
// [BadVersion] or [NoNode] if the old node is not there, in that version. The call's Stat may stay empty.
//
// A watch on the old node hears that its data were changed, and so not that it was deleted: the data are replaced first, and
// a watch is told of one change. So what is heard to be deleted has nothing in its place.
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
		case kind == opCreate: // which is how servers call the other, and then they do not tell the node's Stat
			c.Path = r.text()
		case kind == opCreate2:
			c.Path, c.Stat = r.text(), r.stat()
		case kind == opSetData:
			r.stat()
		case kind == opDelete: // has no more to say
		default: // an error, also in place of what was done and is undone
			if code := Code(r.int()); code != 0 && code != runtimeInconsistency && c.Err == nil {
				c.Err = code
			}
		}
	}
}
