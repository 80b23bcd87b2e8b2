package peer;

/** A failure whose answer is known. */
class PeerException extends RuntimeException {
    private static final long serialVersionUID = 1;

    private final ErrorCode code;

    PeerException(ErrorCode code, String message) {
        super(message);
        this.code = code;
    }

    ErrorCode code() {
        return code;
    }
}
