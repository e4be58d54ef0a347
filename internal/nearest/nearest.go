// Package nearest finds the likely meaning of a mistyped word.
package nearest

// To returns the nearest known word, or "" if none is near. A word is near if at most a third of the word's letters, rounded
// up, must be changed, left out, added, or swapped with the next.
func To(word string, known []string) string {
	best, least := "", (len(word)+2)/3+1
	for _, k := range known {
		if d := distance(word, k); d < least {
			best, least = k, d
		}
	}
	return best
}

// Hint returns a clause for a message: "; did you mean run?", or "" if no word is near.
func Hint(word string, known []string) string {
	if meant := To(word, known); meant != "" {
		return "; did you mean " + meant + "?"
	}
	return ""
}

// distance is the distance of Damerau and Levenshtein, by bytes, without a second edit of any part (optimal string
// alignment).
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		before, last, row = last, row, before
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
	}
	return row[len(b)]
}
