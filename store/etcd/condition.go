package etcd

import (
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// The conditions of transactions. Those of each lock and unlock are filled in here, and not by [clientv3.Compare], which
// copies them two or three times: see [value.encode].

// unchanged is the condition that a key is as it was at a revision.
func unchanged(key string, modified int64) clientv3.Cmp {
	c := clientv3.ModRevision(key)
	c.GetCompare().TargetUnion = &pb.Compare_ModRevision{ModRevision: modified}
	return c
}

// missing is the condition that a key is not there. Who puts one that is takes its place in the queue: the create revision stays.
func missing(key string) clientv3.Cmp {
	c := clientv3.CreateRevision(key)
	c.GetCompare().TargetUnion = &pb.Compare_CreateRevision{}
	return c
}

// nobodySince is the condition that no key of a name was made after a revision, and is there still.
func nobodySince(folder string, seen int64) clientv3.Cmp {
	c := clientv3.CreateRevision(folder)
	p := c.GetCompare()
	p.Result, p.RangeEnd = pb.Compare_LESS, []byte(clientv3.GetPrefixRangeEnd(folder))
	p.TargetUnion = &pb.Compare_CreateRevision{CreateRevision: seen + 1}
	return c
}
