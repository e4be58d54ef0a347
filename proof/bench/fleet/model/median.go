package model

import "slices"

// Median returns the median of each figure of several rounds of measurements with the same sizes.
func Median(rounds []Record) *Record {
	r := rounds[0]
	load := func(of func(*Record) *Load) Load {
		var all []Load
		for i := range rounds {
			all = append(all, *of(&rounds[i]))
		}
		figure := func(of func(*Load) float64) float64 {
			return middle(len(all), func(i int) float64 { return of(&all[i]) })
		}
		return Load{
			figure(func(l *Load) float64 { return l.CPU }), figure(func(l *Load) float64 { return l.Received }),
			figure(func(l *Load) float64 { return l.Sent }), figure(func(l *Load) float64 { return l.Syncs }),
			figure(func(l *Load) float64 { return l.Connections }), figure(func(l *Load) float64 { return l.Memory }),
		}
	}
	for _, parts := range []func(*Record) *Parts{func(r *Record) *Parts { return &r.Few }, func(r *Record) *Parts { return &r.Many }} {
		parts(&r).Opening = middle(len(rounds), func(i int) float64 { return parts(&rounds[i]).Opening })
		for _, of := range []func(*Parts) *Load{
			func(p *Parts) *Load { return &p.Empty }, func(p *Parts) *Load { return &p.Idle },
			func(p *Parts) *Load { return &p.Holding }, func(p *Parts) *Load { return &p.Locking },
			func(p *Parts) *Load { return &p.Waiting }, func(p *Parts) *Load { return &p.Calm },
			func(p *Parts) *Load { return &p.Together },
		} {
			*of(parts(&r)) = load(func(r *Record) *Load { return of(parts(r)) })
		}
	}
	r.Fleets = slices.Clone(r.Fleets)
	for n := range r.Fleets {
		r.Fleets[n].Seen = load(func(r *Record) *Load { return &r.Fleets[n].Seen })
	}
	return &r
}

// middle returns the median of n figures; for an even n, the mean of the two in the middle.
func middle(n int, figure func(i int) float64) float64 {
	var all []float64
	for i := range n {
		all = append(all, figure(i))
	}
	slices.Sort(all)
	return (all[(n-1)/2] + all[n/2]) / 2
}
