// Package stilehttp puts locks and limits in front of HTTP, on both sides:
//
//	mux.Handle("POST /orders/{id}/pay", stilehttp.Handler(order, pay, nil)) // one payment of an order at a time, else 409
//	mux.Handle("GET /export", stilehttp.Limit(exports, export, nil))        // five exports over all machines, else 429
//	vendor := &http.Client{Transport: &stilehttp.Transport{Permit: calls}}  // five calls over all machines, others wait
//
// A request that holds a lock has a context that ends with the lease and carries it: see [stile.FromContext] and
// [stile.Token].
package stilehttp
