package peer;

/** A request, or a command line, that makes no sense. */
final class InvalidRequest extends PeerException {
    private static final long serialVersionUID = 1;

    InvalidRequest(String message) {
        super(ErrorCode.INVALID, message);
    }
}
