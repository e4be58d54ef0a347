package redis

// Remembered is for drivertest.
func (s *tairCAS) Remembered() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}
