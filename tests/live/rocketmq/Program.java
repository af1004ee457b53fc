/** What the programs share. */
class Program {
    /** An error of the calling thread ends the program. Else the threads of its clients run on, and the test waits in vain. */
    static void endsOnError() {
        Thread.currentThread().setUncaughtExceptionHandler((thread, error) -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
    }
}
