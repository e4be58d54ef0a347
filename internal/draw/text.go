package draw

import "strings"

const (
	body  = 15 // height of text
	small = 14 // of text inside of a timeline and of a chart
	line  = 19 // from one line of text to the next
)

// advances are the widths of the characters from space to tilde, in hundredths of the text's height: the wider of DejaVu
// Sans and Liberation Sans, which are wider than what most systems have.
var advances = [...]uint8{
	32, 40, 46, 84, 64, 95, 78, 27, 39, 39, 50, 84, 32, 36, 32, 34, 64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34, 84, 84, 84, 56,
	102, 68, 69, 72, 77, 67, 61, 78, 75, 29, 50, 67, 56, 86, 75, 79, 67, 79, 72, 67, 61, 73, 68, 99, 69, 67, 69, 39, 34, 39, 84, 56, 50,
	61, 63, 55, 63, 62, 35, 63, 63, 28, 28, 58, 28, 97, 63, 61, 63, 63, 41, 52, 39, 63, 59, 82, 59, 59, 52, 64, 34, 64, 84,
}

// width estimates how wide a text of one line is at most.
func width(text string, size float64, bold bool) float64 {
	sum := 0.0
	for _, r := range text {
		switch i := int(r) - ' '; {
		case i >= 0 && i < len(advances):
			sum += float64(advances[i])
		case r < 0x2000:
			sum += 80
		default:
			sum += 100 // Chinese, arrows and dashes
		}
	}
	if bold {
		sum *= 1.15
	}
	return sum * size / 100
}

// wrap breaks a text into lines no wider than most, where its words allow that. Its own line breaks stay.
func wrap(text string, size float64, bold bool, most float64) (lines []string) {
	for paragraph := range strings.SplitSeq(text, "\n") {
		now := ""
		for word := range strings.FieldsSeq(paragraph) {
			switch {
			case now == "":
				now = word
			case width(now+" "+word, size, bold) <= most:
				now += " " + word
			default:
				lines = append(lines, now)
				now = word
			}
		}
		lines = append(lines, now)
	}
	return lines
}

// widest is the width of the widest line.
func widest(lines []string, size float64, bold bool) float64 {
	most := 0.0
	for _, l := range lines {
		most = max(most, width(l, size, bold))
	}
	return most
}
