package semaphore

// Chunk lets tests put as many waiters as it takes to reach the next hold of
// the mutex, and one fewer, and one more.
const Chunk = chunk
