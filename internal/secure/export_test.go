package secure

const Hesitation = hesitation
